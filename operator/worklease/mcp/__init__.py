"""Leases for agents that act through tools: the command worklease-mcp, over stdio or streamable HTTP."""
