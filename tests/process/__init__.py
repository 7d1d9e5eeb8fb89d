"""The executable as operators and the test tools of other projects meet it."""
