//go:build race

package bench

// raceDetector says that the test binary has Go's race detector, which makes a run take
// some ten times as long.
const raceDetector = true
