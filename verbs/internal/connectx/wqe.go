package connectx

// Opcodes of send WQEs (MLX5_OPCODE_*).
const (
	OpNOP       = 0x00
	OpSendInval = 0x01
	OpWrite     = 0x08
	OpWriteImm  = 0x09
	OpSend      = 0x0a
	OpSendImm   = 0x0b
	OpRead      = 0x10
	OpAtomicCS  = 0x11
	OpAtomicFA  = 0x12
)

// Sizes of a WQE's parts in bytes.
const (
	BlockBytes    = 64 // a basic block
	Octoword      = 16 // what a WQE's size counts in
	CtrlBytes     = 16
	RaddrBytes    = 16
	AtomicBytes   = 16
	DatagramBytes = 48
	DataBytes     = 16
	NextBytes     = 16 // before the list of a WQE of a shared receive queue: where the next one is

	MaxOctowords = 63 // of a WQE
)

// A control segment: the WQE's counter and opcode, the queue pair's number and the WQE's
// size, the flags, and immediate data or a key.
const (
	CtrlFlags = 11
	CtrlImm   = 12
)

// Bits of a control segment's flags (fm_ce_se).
const (
	Solicited = 1 << 1
	CEMask    = 3 << 2
	CEAlways  = 2 << 2 // a CQE whatever the outcome; 3 also asks for an event
	FMMask    = 7 << 5
	FMStrong  = 3 << 5 // from this value on, requests wait for READs and atomics before
	FMFence   = 4 << 5 // what libmlx5 sets for IBV_SEND_FENCE
)

// Bits and values in segments.
const (
	InlineBit   = 1 << 31 // of a data segment's first word
	ExtendedAV  = 1 << 31 // of the word with a datagram's queue pair
	InvalidLKey = 0x100   // ends the list of a receive WQE
)

// Words of a queue pair's doorbell record. A shared receive queue's has the first only.
const (
	RecordRecv = 0 // WQEs posted, modulo 1<<16
	RecordSend = 1 // blocks posted, modulo 1<<16
)
