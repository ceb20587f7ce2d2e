// Package bench runs scenarios on the built-in model and measures.
//
// Run takes a scenario and returns a results.Result: for every system of the scenario
// its rates, round trips, completion times and queues, and time series of them.
package bench
