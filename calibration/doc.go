// Package calibration maps a NIC's clock to the host's and back, so that
// completion timestamps taken by the NIC and send times taken by the host give
// round-trip times (TIMELY, SIGCOMM 2015, section 3.1).
//
// The NIC's clock is a free-running counter of any width that wraps around. A
// Sample brackets one reading of it between two readings of the host's clock. A
// Calibrator takes samples and keeps what they leave possible: an interval for the
// host time of the last reading and an interval for the drift, the relative
// difference in rate. Each sample narrows both intervals; the time between samples
// widens them by what the clocks may have done meanwhile. A mapping is the middle
// of the interval, and its bound half the interval's width.
//
// The bound is therefore not an estimate. It holds under three conditions: the NIC
// was read within the bracket, the two clocks' rates differ by no more than
// Config.MaxDriftPPM, and the drift changes no faster than Config.MaxWanderPPM a
// second. A bracket that an interrupt widened is harmless: it is less precise, but
// not wrong. docs/calibration.md has the formulas and measured figures.
//
// A sample outside the intervals means that the host's clock was stepped or that
// the device was reset. The Calibrator then starts over, counts a new generation,
// and refuses to map until it has enough samples again. After that it still refuses
// instants before the first of them. It also refuses when it has had no sample for
// too long. It sees a step or a reset with the next sample, not before. A step
// smaller than the bound can't be distinguished from the normal behaviour of the
// clocks.
//
// The host's clock should be one that nobody steers: CLOCK_MONOTONIC_RAW rather
// than CLOCK_MONOTONIC, whose rate is slewed by up to 500 ppm.
//
// A Calibrator is plain state: it reads no clock and is not safe for concurrent
// use. Nothing allocates after New. ToHost is meant to be called for every
// completion.
package calibration
