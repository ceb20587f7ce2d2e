// Package doctor examines an RDMA device for pacing: what the device can do, what
// of the host and the network can be seen from here, and whether writing, reading
// and pacing work. `sluice doctor` prints its report, which a user can attach to a
// question.
//
// It changes nothing on the device or the host.
package doctor
