// Package report writes the results of simulation runs as one HTML page: a
// table over the systems of each scenario, and rate, RTT and queue over time.
// The page is self-contained. It loads nothing, holds its data as JSON in the
// element with the id "report-data", and shows its tables without scripts.
//
// The package knows nothing of the simulator: numbers in, HTML out. The same
// Report gives the same bytes.
package report
