package uverbs

// The driver's parts of mlx5.

// Mlx5ContextReq is the driver's part of GetContextReq.
type Mlx5ContextReq struct {
	TotalNumBFRegs, NumLowLatencyBFRegs, Flags, CompMask uint32
	MaxCQEVersion, Reserved0                             uint8
	Reserved1                                            uint16
	Reserved2                                            uint32
	LibCaps                                              uint64
}

// Mlx5ContextDEVX is Mlx5ContextReq.Flags' wish for DEVX, the firmware's commands.
const Mlx5ContextDEVX = 1 << 0

// Mlx5LibCapDynamicUAR says that the library allocates UARs itself.
const Mlx5LibCapDynamicUAR = 1 << 1

// What Mlx5ContextResp.CompMask says is valid or there.
const (
	Mlx5CoreClockOffset = 1 << 0
	Mlx5DumpFillMKey    = 1 << 1
	Mlx5RealTimeTS      = 1 << 4
)

// Bits of Mlx5ContextResp.CmdsSuppUHW: commands that have a driver's part.
const (
	Mlx5UHWQueryDevice = 1 << 0
	Mlx5UHWCreateAH    = 1 << 1
)

// Mlx5InlineNone is Mlx5ContextResp.EthMinInline of a device that needs no header
// inline.
const Mlx5InlineNone = 1

// Mlx5ClockInfoV1 is the bit of Mlx5ContextResp.ClockInfoVersions.
const Mlx5ClockInfoV1 = 1 << 0

// Mlx5ContextResp is the driver's part of GetContextResp.
type Mlx5ContextResp struct {
	QPTabSize, BFRegSize, TotBFRegs, CacheLineSize            uint32
	MaxSQDescSz, MaxRQDescSz                                  uint16
	MaxSendWQEBB, MaxRecvWR, MaxSRQRecvWR                     uint32
	NumPorts, FlowActionFlags                                 uint16
	CompMask, ResponseLength                                  uint32
	CQEVersion, CmdsSuppUHW, EthMinInline, ClockInfoVersions  uint8
	HCACoreClockOffset                                        uint64
	LogUARSize, NumUARsPerPage, NumDynBFRegs, DumpFillMKeyVal uint32
}

// Mlx5AllocPDResp is the driver's part of AllocPD's response.
type Mlx5AllocPDResp struct{ PDN uint32 }

// Mlx5QueryDeviceResp is the driver's part of QueryDeviceExResp.
type Mlx5QueryDeviceResp struct {
	CompMask, ResponseLength                      uint32
	MaxTSO, TSOSupportedQPTs                      uint32
	RXHashFieldsMask                              uint64
	RXHashFunction                                uint8
	_                                             [7]byte
	CQECompMaxNum, CQECompFormats                 uint32
	RateLimitMin, RateLimitMax, RateSupportedQPTs uint32 // kb/s
	RateCapFlags                                  uint8
	_                                             [3]byte
	MultiPktSendWQEs, Flags                       uint32
	SWParsingOffloads, SWParsingQPTs              uint32
	StridingMinStride, StridingMaxStride          uint32
	StridingMinStrides, StridingMaxStrides        uint32
	StridingQPTs, _                               uint32
	TunnelOffloads                                uint32
	DCIMaxLogConcurrent, DCIMaxLogErrored         uint8
	_                                             uint16
}

// Flags of Mlx5QueryDeviceResp.
const (
	Mlx5CQE128BComp = 1 << 0
	Mlx5CQE128BPad  = 1 << 1
)

// Formats of Mlx5QueryDeviceResp.CQECompFormats.
const (
	Mlx5CQEFormatHash = 1 << 0
	Mlx5CQEFormatCSum = 1 << 1
)

// Mlx5SupportBurst is Mlx5QueryDeviceResp.RateCapFlags' bit of limited bursts.
const Mlx5SupportBurst = 1 << 0

// Mlx5CreateCQReq is the driver's part of CreateCQReq.
type Mlx5CreateCQReq struct {
	BufAddr, DBAddr             uint64
	CQESize                     uint32
	CQECompEn, CQECompResFormat uint8
	Flags                       uint16
	UARPageIndex, Reserved0     uint16
	Reserved1                   uint32
}

// Flags of Mlx5CreateCQReq.
const (
	Mlx5CQ128BPad      = 1 << 0
	Mlx5CQUARPageIndex = 1 << 1
	Mlx5CQRealTimeTS   = 1 << 2
)

// Mlx5CreateCQResp is the driver's part of CreateCQResp.
type Mlx5CreateCQResp struct{ CQN, _ uint32 }

// Mlx5ResizeCQReq is the driver's part of ResizeCQReq.
type Mlx5ResizeCQReq struct {
	BufAddr   uint64
	CQESize   uint16
	Reserved0 uint16
	Reserved1 uint32
}

// Mlx5CreateSRQReq is the driver's part of CreateSRQReq and CreateXSRQReq.
type Mlx5CreateSRQReq struct {
	BufAddr, DBAddr                   uint64
	Flags, Reserved0, UIDX, Reserved1 uint32
}

// Mlx5CreateSRQResp is the driver's part of CreateSRQResp.
type Mlx5CreateSRQResp struct{ SRQN, _ uint32 }

// Mlx5CreateQPReq is the driver's part of CreateQPReq.
type Mlx5CreateQPReq struct {
	BufAddr, DBAddr                                             uint64
	SQWQECount, RQWQECount, RQWQEShift, Flags, UIDX, BFRegIndex uint32
	SQBufAddr                                                   uint64
	ECEOptions                                                  uint32
	LogNumConcurrent, LogNumErrored                             uint8
	Reserved                                                    uint16
}

// Flags of Mlx5CreateQPReq.
const (
	Mlx5QPSignature       = 1 << 0
	Mlx5QPScatterCQE      = 1 << 1
	Mlx5QPBFRegIndex      = 1 << 3
	Mlx5QPDCT             = 1 << 4
	Mlx5QPDCI             = 1 << 5
	Mlx5QPAllowScatterCQE = 1 << 8
	Mlx5QPUARPageIndex    = 1 << 10
)

// Mlx5CreateQPResp is the driver's part of CreateQPResp.
type Mlx5CreateQPResp struct {
	BFRegIndex, ECEOptions, CompMask uint32
	TIRN, TISN, RQN, SQN, _          uint32
	TIRICMAddr                       uint64
}

// Mlx5ModifyQPReq is the driver's part of ModifyQPExReq.
type Mlx5ModifyQPReq struct {
	CompMask, MaxBurstSz   uint32
	TypicalPktSz, Reserved uint16
	ECEOptions             uint32
}

// Mlx5ModifyQPResp is the driver's part of ModifyQPExResp.
type Mlx5ModifyQPResp struct{ ResponseLength, DCTN, ECEOptions, _ uint32 }

// Mlx5CreateAHResp is the driver's part of CreateAH's response.
type Mlx5CreateAHResp struct {
	ResponseLength uint32
	DMAC           [6]byte
	_              [6]byte
}

// Mmap commands (enum mlx5_ib_mmap_cmd): the offset of an mmap in pages is the command
// shifted left by 8, with the page's index below.
const (
	Mlx5MmapRegularPage = 0
	Mlx5MmapCoreClock   = 5
	Mlx5MmapClockInfo   = 7
	Mlx5MmapDeviceMem   = 8
	Mlx5MmapEntries     = 9 // shifted left by 16: of what the ioctl ABI allocates, by its index
)

// Mlx5ClockInfo is the beginning of the clock info page. The sign is odd while the
// page is written.
type Mlx5ClockInfo struct {
	Sign, _        uint32
	NSec           uint64
	Cycles         uint64
	Frac           uint64
	Mult, Shift    uint32
	Mask           uint64
	OverflowPeriod uint64 // nanoseconds
}
