"""The requests of the JetStream API, by what they are about; `endpoints` finds the one that is meant."""
