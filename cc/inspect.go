package cc

// Inspector is an Engine that reports its internal variables, for monitoring and
// records.
type Inspector interface {
	// Inspect calls visit for each of the engine's variables. A name is in snake
	// case and ends in the unit, if there is one; names and their order never
	// change for an engine, and values are finite.
	Inspect(visit func(name string, value float64))
}
