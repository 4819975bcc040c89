"""The ways from recordings to results, composed from signals, models, friction and estimators."""
