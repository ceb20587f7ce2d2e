// Package scenario is the documented YAML that says what to simulate: topology,
// fabric, NICs, the systems to compare, workloads and measurements.
//
// Load reads a built-in scenario or a file, applies what --set says, fills in
// defaults, and checks everything that can be checked without running: an error
// names the file, the line and the key, and says how to mend it. The result is
// plain data, plus generators: Flows draws the flows of all workloads in the
// order of their starts, one at a time.
//
// docs/scenarios.md describes every key; it is generated from the types here.
package scenario

//go:generate go run ./internal/gendoc -o ../docs/scenarios.md
