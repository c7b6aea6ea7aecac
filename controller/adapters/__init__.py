"""The controller's edges: the API server, kopf, HTTP and metrics. They translate and decide nothing."""
