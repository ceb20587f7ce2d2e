// Package stats has the types of measurements, of the model and of live NICs: a Float
// that knows whether it was measured, a Recorder of times, a Distribution, Jain's index,
// and the Environment of the program that measured.
//
// It knows neither the model nor the verbs.
package stats
