"""The same generated configurations, users and operations to the Go server and to Headrace."""
