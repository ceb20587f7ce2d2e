// Package report writes the results of simulation runs as one HTML page: a table
// over the systems of each scenario, plots over time, distributions, slowdown by
// size, the network with its busiest links, and the command and version that made
// them. The page is self-contained. It loads nothing, holds its data as JSON in the
// element with the id "report-data", and shows its tables and networks without
// scripts.
//
// The package does not know the simulator: numbers in, HTML out. The same Report
// gives the same bytes.
package report
