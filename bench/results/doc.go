// Package results is what runs of scenarios gave, and how it is written: a Document of
// Results as JSON, which can be read back, as tables, as CSV and as pages, and the logs of
// flows and of series that are written as a run goes.
//
// What depends on the machine that ran them stands in fields named wall_s, start_time and
// environment and nowhere else; everything else is a function of scenario and seed. The
// package does not know the simulator: what reads results needs none of it.
package results
