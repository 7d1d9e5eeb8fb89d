"""The requests of the JetStream API, by what they are about; `dispatch` finds the one that is meant."""
