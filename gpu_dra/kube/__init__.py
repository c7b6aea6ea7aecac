"""The one door to the Kubernetes API server. Nothing outside this package speaks HTTP to it."""
