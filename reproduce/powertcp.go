package reproduce

// The rows of PowerTCP (Addanki et al., NSDI 2022).

func powertcp() []*Row { return nil }
