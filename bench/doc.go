// Package bench runs scenarios on the built-in model, measures, and reports.
//
// Run takes a scenario and returns a Result: for every system of the scenario
// its rates, round trips, completion times and queues, and time series of them.
// Results print as a table, as JSON and as CSV. What depends on the machine that
// ran them stands in fields named wall_s, start_time and environment and nowhere
// else; everything else is a function of scenario and seed.
package bench
