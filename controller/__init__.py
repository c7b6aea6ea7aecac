"""The controller: makes the DeviceClasses that the chart's values name, and keeps them so."""
