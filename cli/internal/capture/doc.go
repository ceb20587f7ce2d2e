// Package capture reads packet captures (pcap and pcapng, gzipped or not), checks
// the ICRC of every RoCEv2 packet in them, and sums up each connection: messages,
// acknowledgements, NAKs, packets sent again, congestion marks and round-trip times.
//
//	report, err := capture.Summarize(file)
//	report.WriteTable(os.Stdout)
//
// A report is whole up to the error: a truncated file has one of both. The same
// bytes give the same report. docs/wire.md says how the figures are counted.
package capture
