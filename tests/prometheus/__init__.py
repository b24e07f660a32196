"""Alert rules and dashboards of the chart as values, and the programs of Prometheus that read them."""
