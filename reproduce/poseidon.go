package reproduce

// The rows of Poseidon (Wang et al., NSDI 2023).

func poseidon() []*Row { return nil }
