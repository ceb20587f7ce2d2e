// Package chip is the ground that the parts of a NIC stand on: where the NIC is and what it is made of, its packets, the
// events that it schedules for itself, and the spans that it reports.
package chip
