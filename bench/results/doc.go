// Package results is the results of runs of scenarios, and how they are written: a
// Document of Results as JSON, which can be read back, as tables, as CSV and as pages;
// and the logs of flows and of series, which are written during a run.
//
// Only the fields named wall_s, start_time and environment depend on the machine that ran
// them; everything else is a function of scenario and seed. The package does not import
// the simulator: programs that read results do not need it.
package results
