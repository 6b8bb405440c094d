"""A real Kubernetes node on this machine without Docker: kubelet, kube-proxy, scheduler, DNS and containerd.

They live in namespaces of their own, and the kernel ends all of them with the first process there.
"""
