package windows

// Every window has all workers in the tests, whose networks are small.
func init() { alone = 0 }
