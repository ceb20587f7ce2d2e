// Package thetapowertcp is theta-PowerTCP: PowerTCP without the help of
// switches. Where PowerTCP reads the power of the bottleneck from telemetry,
// this one derives it from the round-trip time and its gradient, taking the
// bottleneck to run at its full rate (equation 8).
//
// Source: V. Addanki et al., "PowerTCP: Pushing the Performance Limits of
// Datacenter Networks", NSDI 2022, section 3.5 and Algorithm 2 (appendix D).
//
// Units: windows in bytes, times in picoseconds, power normalised by its value
// at equilibrium and so without a unit.
//
// Departures: the current has a floor of half the bottleneck's rate, as in the
// paper's own simulator (Config.MinCurrent; zero takes it back). Guards, for
// what Algorithm 2 leaves undefined: no previous acknowledgement, two at one
// instant. docs/engines/theta-powertcp.md has the readings taken.
package thetapowertcp
