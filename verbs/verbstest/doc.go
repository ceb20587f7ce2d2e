// Package verbstest tests providers against the promises of package verbs: tests of the
// API (what is refused, and how; what is in use) and of traffic (Writes, Reads, Sends,
// atomics, unreliable connections, datagrams, events, errors), over any device.
//
//	func TestProvider(t *testing.T) {
//		dev := ...
//		verbstest.Run(t, verbstest.Ends{A: dev, B: dev})
//	}
//
// What a device does not have (verbs.ErrNotSupported) skips the test about it.
// Times are the device's, and long; nothing depends on how fast it is.
//
// The package's own tests are over the model and the user-space endpoint, and over a
// device of yours:
//
//	go test -tags ibverbs -v ./verbs/verbstest -device ibv:mlx5_0
package verbstest
