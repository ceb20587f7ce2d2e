// Package workload is who sends what to whom, and when: patterns of flows, traces,
// collectives, requests and bursts. A workload checks its keys against a network, and
// then draws its flows, or runs as a state machine (Traffic) that says what to post. It
// knows no NIC and no engine. One seed gives the same choices, whatever carries them.
package workload
