package wiretag

// Stats counts what a Device has done since Wrap.
type Stats struct {
	// Reported and Unreported are successful completions of send requests whose path
	// telemetry is known, or is not.
	Reported, Unreported uint64
	// Events are the records read from the program, Strange the records that match
	// no request, and Lost the records for which the ring had no room.
	Events, Strange, Lost uint64
	// Taken, Put and Reflected are tags: frames from which one or two were taken off, and
	// fresh and reflected ones that were put on. Failed are frames that
	// were dropped, or sent as they were, for want of memory, and Segmented packets that
	// were not tagged because segmentation offload was to cut them.
	Taken, Put, Reflected, Failed, Segmented uint64
	// Probes are those sent, ProbesAnswered those whose answer arrived, and ProbesLost
	// those whose answer did not arrive within MaxAge. ProbesServed are probes of
	// peers that the program answered.
	Probes, ProbesAnswered, ProbesLost, ProbesServed uint64
}
