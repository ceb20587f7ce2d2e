package uverbs

// GetContextReq asks for a context; the driver's part is Mlx5ContextReq.
type GetContextReq struct{ Response uint64 }

// GetContextResp answers it.
type GetContextResp struct {
	AsyncFD        uint32
	NumCompVectors uint32
}

// QueryDeviceResp has the attributes of a device. The GUIDs are in big-endian order.
type QueryDeviceResp struct {
	FWVer                                     uint64
	NodeGUID, SysImageGUID                    [8]byte
	MaxMRSize, PageSizeCap                    uint64
	VendorID, VendorPartID, HWVer             uint32
	MaxQP, MaxQPWR, DeviceCapFlags            uint32
	MaxSGE, MaxSGERD, MaxCQ, MaxCQE           uint32
	MaxMR, MaxPD                              uint32
	MaxQPRdAtom, MaxEERdAtom, MaxResRdAtom    uint32
	MaxQPInitRdAtom, MaxEEInitRdAtom          uint32
	AtomicCap, MaxEE, MaxRDD, MaxMW           uint32
	MaxRawIPv6QP, MaxRawEthyQP                uint32
	MaxMcastGrp, MaxMcastQPAttach             uint32
	MaxTotalMcastQPAttach, MaxAH, MaxFMR      uint32
	MaxMapPerFMR, MaxSRQ, MaxSRQWR, MaxSRQSGE uint32
	MaxPKeys                                  uint16
	LocalCAAckDelay, PhysPortCnt              uint8
	_                                         [4]byte
}

// QueryDeviceExReq asks for more attributes.
type QueryDeviceExReq struct{ CompMask, Reserved uint32 }

// QueryDeviceExResp has them.
type QueryDeviceExResp struct {
	Base                                   QueryDeviceResp
	CompMask, ResponseLength               uint32
	ODPGeneralCaps                         uint64
	RCODPCaps, UCODPCaps, UDODPCaps, _     uint32
	TimestampMask                          uint64
	HCACoreClock                           uint64 // kHz
	DeviceCapFlagsEx                       uint64
	RSSSupportedQPTs, MaxRWQIndTables      uint32
	MaxRWQIndTableSize, _                  uint32
	MaxWQTypeRQ, RawPacketCaps             uint32
	MaxRndvHdrSize, MaxNumTags, TMFlags    uint32
	TMMaxOps, TMMaxSGE, _                  uint32
	MaxCQModerationCount, MaxCQModerPeriod uint16
	_                                      uint32
	MaxDMSize                              uint64
	XRCODPCaps, _                          uint32
}

// QueryPortReq asks for the attributes of a port.
type QueryPortReq struct {
	Response uint64
	PortNum  uint8
	Reserved [7]byte
}

// QueryPortResp has them. MTUs are codes, 1 for 256 to 5 for 4096.
type QueryPortResp struct {
	PortCapFlags, MaxMsgSz, BadPKeyCntr, QKeyViolCntr, GIDTblLen uint32
	PKeyTblLen, LID, SMLID                                       uint16
	State, MaxMTU, ActiveMTU, LMC, MaxVLNum, SMSL                uint8
	SubnetTimeout, InitTypeReply, ActiveWidth, ActiveSpeed       uint8
	PhysState, LinkLayer, Flags, _                               uint8
}

// ResponseReq is the request of a command that has nothing but the response's address.
type ResponseReq struct{ Response uint64 }

// HandleReq is the request of a command that has nothing but a handle and no response.
type HandleReq struct{ Handle uint32 }

// HandleResp is the response of a command that makes an object and says no more of it.
type HandleResp struct{ Handle uint32 }

// RegMRReq registers memory.
type RegMRReq struct {
	Response, Start, Length, HCAVA uint64
	PDHandle, AccessFlags          uint32
}

// RegMRResp has the region's keys.
type RegMRResp struct{ Handle, LKey, RKey uint32 }

// ReregMRReq changes a region.
type ReregMRReq struct {
	Response              uint64
	MRHandle, Flags       uint32
	Start, Length, HCAVA  uint64
	PDHandle, AccessFlags uint32
}

// What ReregMRReq changes (enum ibv_rereg_mr_flags).
const (
	ReregTranslation = 1 << 0
	ReregPD          = 1 << 1
	ReregAccess      = 1 << 2
)

// ReregMRResp has the region's keys.
type ReregMRResp struct{ LKey, RKey uint32 }

// AllocMWReq makes a memory window.
type AllocMWReq struct {
	Response uint64
	PDHandle uint32
	Type     uint8
	Reserved [3]byte
}

// CreateCQReq makes a completion queue; the driver's part is Mlx5CreateCQReq.
type CreateCQReq struct {
	Response, UserHandle uint64
	CQE, CompVector      uint32
	CompChannel          int32 // a descriptor of the program, or negative
	Reserved             uint32
}

// CreateCQExReq makes one with flags.
type CreateCQExReq struct {
	UserHandle                uint64
	CQE, CompVector           uint32
	CompChannel               int32
	CompMask, Flags, Reserved uint32
}

// Flags of CreateCQExReq.
const (
	CQTimestampCompletion = 1 << 0
	CQIgnoreOverrun       = 1 << 1
)

// CreateCQResp answers both.
type CreateCQResp struct{ Handle, CQE uint32 }

// CreateCQExResp answers CreateCQExReq.
type CreateCQExResp struct {
	Base                     CreateCQResp
	CompMask, ResponseLength uint32
}

// ResizeCQReq gives a completion queue another buffer.
type ResizeCQReq struct {
	Response    uint64
	Handle, CQE uint32
}

// ResizeCQResp answers it.
type ResizeCQResp struct{ CQE, _ uint32 }

// ModifyCQExReq moderates a completion queue's events.
type ModifyCQExReq struct {
	Handle, AttrMask uint32
	Count, Period    uint16
	Reserved         uint32
}

// CQModerate is the one attribute of ModifyCQExReq.
const CQModerate = 1 << 0

// DestroyReq destroys an object that has events.
type DestroyReq struct {
	Response         uint64
	Handle, Reserved uint32
}

// DestroyCQResp says how many events of the queue the program has read.
type DestroyCQResp struct{ CompEventsReported, AsyncEventsReported uint32 }

// DestroyResp says how many events of a queue pair or SRQ the program has read.
type DestroyResp struct{ EventsReported uint32 }

// CreateQPReq makes a queue pair; the driver's part is Mlx5CreateQPReq.
type CreateQPReq struct {
	Response uint64
	CreateQPBody
}

// CreateQPBody is the common part of CreateQPReq and CreateQPExReq.
type CreateQPBody struct {
	UserHandle                                                  uint64
	PDHandle, SendCQHandle, RecvCQHandle, SRQHandle             uint32
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32
	SQSigAll, QPType, IsSRQ, Reserved                           uint8
}

// CreateQPExReq makes one with flags.
type CreateQPExReq struct {
	CreateQPBody
	CompMask, CreateFlags, RWQIndTblHandle, SourceQPN uint32
}

// Queue pair types beside ib's (enum ibv_qp_type).
const (
	QPRawPacket = 8
	QPXRCSend   = 9
	QPXRCRecv   = 10
	QPDriver    = 0xff
)

// CreateQPResp answers both.
type CreateQPResp struct {
	Handle, QPN                                                 uint32
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32
	_                                                           uint32
}

// CreateQPExResp answers CreateQPExReq.
type CreateQPExResp struct {
	Base                     CreateQPResp
	CompMask, ResponseLength uint32
}

// QPDest is a queue pair's destination.
type QPDest struct {
	DGID                              [16]byte
	FlowLabel                         uint32
	DLID, Reserved                    uint16
	SGIDIndex, HopLimit, TrafficClass uint8
	SL, SrcPathBits, StaticRate       uint8
	IsGlobal, PortNum                 uint8
}

// QueryQPReq asks for a queue pair's attributes.
type QueryQPReq struct {
	Response         uint64
	Handle, AttrMask uint32
}

// QueryQPResp has them.
type QueryQPResp struct {
	Dest, AltDest                                               QPDest
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32
	QKey, RQPSN, SQPSN, DestQPN, AccessFlags                    uint32
	PKeyIndex, AltPKeyIndex                                     uint16
	State, CurState, PathMTU, PathMigState, SQDraining          uint8
	MaxRdAtomic, MaxDestRdAtomic, MinRNRTimer, PortNum          uint8
	Timeout, RetryCnt, RNRRetry, AltPortNum, AltTimeout         uint8
	SQSigAll                                                    uint8
	_                                                           [5]byte
}

// ModifyQPReq changes a queue pair.
type ModifyQPReq struct {
	Dest, AltDest                                     QPDest
	Handle, AttrMask                                  uint32
	QKey, RQPSN, SQPSN, DestQPN, AccessFlags          uint32
	PKeyIndex, AltPKeyIndex                           uint16
	State, CurState, PathMTU, PathMigState            uint8
	EnSQDAsyncNotify, MaxRdAtomic, MaxDestRdAtomic    uint8
	MinRNRTimer, PortNum, Timeout, RetryCnt, RNRRetry uint8
	AltPortNum, AltTimeout                            uint8
	Reserved                                          [2]byte
}

// ModifyQPExReq changes a queue pair, its rate too.
type ModifyQPExReq struct {
	Base                ModifyQPReq
	RateLimit, Reserved uint32 // kb/s
}

// ModifyQPExResp answers it.
type ModifyQPExResp struct{ CompMask, ResponseLength uint32 }

// Attributes of a queue pair (enum ibv_qp_attr_mask).
const (
	QPState            = 1 << 0
	QPCurState         = 1 << 1
	QPEnSQDAsyncNotify = 1 << 2
	QPAccessFlags      = 1 << 3
	QPPKeyIndex        = 1 << 4
	QPPort             = 1 << 5
	QPQKey             = 1 << 6
	QPAV               = 1 << 7
	QPPathMTU          = 1 << 8
	QPTimeout          = 1 << 9
	QPRetryCnt         = 1 << 10
	QPRNRRetry         = 1 << 11
	QPRQPSN            = 1 << 12
	QPMaxQPRdAtomic    = 1 << 13
	QPAltPath          = 1 << 14
	QPMinRNRTimer      = 1 << 15
	QPSQPSN            = 1 << 16
	QPMaxDestRdAtomic  = 1 << 17
	QPPathMigState     = 1 << 18
	QPCap              = 1 << 19
	QPDestQPN          = 1 << 20
	QPRateLimit        = 1 << 25
)

// AHAttr is an address.
type AHAttr struct {
	DGID                                           [16]byte
	FlowLabel                                      uint32
	SGIDIndex, HopLimit, TrafficClass, Reserved    uint8
	DLID                                           uint16
	SL, SrcPathBits, StaticRate, IsGlobal, PortNum uint8
	Reserved2                                      uint8
}

// CreateAHReq makes an address handle.
type CreateAHReq struct {
	Response, UserHandle uint64
	PDHandle, Reserved   uint32
	Attr                 AHAttr
}

// McastReq attaches a queue pair to a multicast group, or detaches it.
type McastReq struct {
	GID            [16]byte
	Handle         uint32
	MLID, Reserved uint16
}

// CreateSRQReq makes a shared receive queue; the driver's part is Mlx5CreateSRQReq.
type CreateSRQReq struct {
	Response, UserHandle              uint64
	PDHandle, MaxWR, MaxSGE, SRQLimit uint32
}

// CreateXSRQReq makes one of another type.
type CreateXSRQReq struct {
	Response, UserHandle              uint64
	Type                              uint32
	PDHandle, MaxWR, MaxSGE, SRQLimit uint32
	MaxNumTags, XRCDHandle, CQHandle  uint32
}

// SRQBasic is CreateXSRQReq's type of a plain shared receive queue (enum ib_srq_type).
const SRQBasic = 0

// CreateSRQResp answers both.
type CreateSRQResp struct{ Handle, MaxWR, MaxSGE, SRQN uint32 }

// ModifySRQReq changes a shared receive queue.
type ModifySRQReq struct{ Handle, AttrMask, MaxWR, SRQLimit uint32 }

// Attributes of ModifySRQReq (enum ibv_srq_attr_mask).
const (
	SRQMaxWR = 1 << 0
	SRQLimit = 1 << 1
)

// QuerySRQReq asks for a shared receive queue's attributes.
type QuerySRQReq struct {
	Response         uint64
	Handle, Reserved uint32
}

// QuerySRQResp has them.
type QuerySRQResp struct{ MaxWR, MaxSGE, SRQLimit, _ uint32 }

// CompEvent is a record of a completion channel (struct ib_uverbs_comp_event_desc).
type CompEvent struct{ CQHandle uint64 }

// AsyncEvent is a record of the asynchronous events (struct ib_uverbs_async_event_desc).
// Element is the user handle of the object, or the port.
type AsyncEvent struct {
	Element uint64
	Type    uint32
	_       uint32
}
