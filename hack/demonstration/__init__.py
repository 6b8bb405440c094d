"""The story that hack/demo tells: each chapter says kubectl commands to a real cluster, and checks what comes back."""
