// Package clocks finds the clock that a device's completion timestamps are to be
// calibrated against, and reads it. It is the driver of package calibration, which
// does the arithmetic and reads no clock.
//
// In the order of their quality the sources are
//
//   - NIC: the device's counter itself, by verbs.ClockReader
//     (ibv_query_rt_values_ex): what a completion carries is what is read;
//   - PTP: the hardware clock of the network interface, /dev/ptpN. It serves where
//     completions carry nanoseconds and the counter can't be read;
//   - Wire: stamps that an eBPF program takes as packets pass the network
//     interface, by the host's clock (package verbs/wirestamp);
//   - Host: the host's clock at the time of polling, where there is no other.
//
// Choose takes the best available source and gives the reason against every better
// one. It tests and does not assume: a counter that only returns the host's clock,
// as in user-space RoCEv2, does not count as a NIC's.
//
// A NIC may have two clocks: the counter that stamps completions, and the one that
// PTP steers. They may run at different rates even on one crystal, since the
// second is adjusted. Watch reads both where a device has both, and a Comparison
// says whether they are one.
package clocks
