package reproduce

// The rows of Pulser.

func pulser() []*Row { return nil }
