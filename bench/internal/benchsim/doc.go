// Command benchsim measures the simulator on the standard speed workloads: CPU
// time, events and memory for each packet-hop. `make bench-sim` runs it;
// docs/performance.md says what the workloads are and how to run other
// simulators on them.
package main
