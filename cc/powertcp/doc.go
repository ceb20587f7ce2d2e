// Package powertcp is PowerTCP: a window from the power of the bottleneck, the
// product of what flows into it and what it holds, which in-band telemetry
// tells for each hop.
//
// Source: V. Addanki et al., "PowerTCP: Pushing the Performance Limits of
// Datacenter Networks", NSDI 2022, Algorithm 1 and equation 7.
//
// Units: windows in bytes, times in picoseconds, power normalised by its value
// at equilibrium and so without a unit.
//
// Departures, both with a setting that takes them back: the window is
// remembered four times a round trip rather than once (Config.Remember), since
// equation 7 wants the window when the acknowledged segment was sent; and a
// hop's current has a floor of half its rate (Config.MinCurrent), as the
// paper's own simulator has it, though the text has none. Without either, a few
// flows on one link do not settle where theorem 1 says. Guards, for what
// Algorithm 1 leaves undefined: no previous record, a path that changed,
// records that did not advance. docs/engines/powertcp.md has the readings taken
// and the measurements.
package powertcp
