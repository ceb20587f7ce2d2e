// Package metrics tells Prometheus how paced queue pairs and RDMA devices fare.
//
// Three collectors can be registered with any prometheus.Registerer:
//
//	devices := metrics.NewDevices()
//	reg.MustRegister(devices)                                   // a process's own devices
//	reg.MustRegister(metrics.NewKernel(slog.Default()))         // every RDMA device of the kernel, from sysfs
//	reg.MustRegister(metrics.NewNetdevs(stats, slog.Default())) // pauses and discards of their interfaces, by ethtool
//	...
//	remove := devices.Add(shim) // and call remove before the shim is closed
//
// A process that is not scraped itself publishes its gatherer on a socket of the
// local machine with Publish, and `sluice exporter` collects those of all
// processes with Processes. docs/observability.md lists the names.
//
// Collectors may be used from several goroutines at once.
package metrics
