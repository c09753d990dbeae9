"""What a trial says should be done: findings with the trial's health and phases, in one answer."""
