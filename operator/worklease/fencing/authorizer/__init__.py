"""worklease-fence: checks tokens for proxies whose services cannot be changed, with a durable mark.

A proxy asks before it forwards, so this is a mark at the door: once an epoch has been let in, lower ones are not.
It does not order requests that were let in already. A service that can call its fence in its transaction should.
"""
