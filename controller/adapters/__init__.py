"""The controller's edges: the API server, kopf and metrics. They translate and decide nothing."""
