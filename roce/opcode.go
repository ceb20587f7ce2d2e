package roce

import "github.com/sluice-rdma/sluice/ib"

// layout is the set of headers that follow the BTH of an opcode, in this order: at
// most one of DETH, RETH and AtomicETH, then AETH, then AtomicAckETH, then ImmDt or
// IETH (IBA 9.2.1).
type layout uint8

const (
	hasRETH layout = 1 << iota
	hasAETH
	hasAtomic
	hasAtomicAck
	hasImm // ImmDt or IETH
	hasDETH
	hasPayload
	isCNP
)

// The RC opcodes; UC has the first twelve of them.
var rcLayouts = [...]layout{
	ib.SendFirst: hasPayload, ib.SendMiddle: hasPayload, ib.SendLast: hasPayload, ib.SendOnly: hasPayload,
	ib.SendLastImm: hasPayload | hasImm, ib.SendOnlyImm: hasPayload | hasImm,
	ib.WriteFirst: hasPayload | hasRETH, ib.WriteMiddle: hasPayload, ib.WriteLast: hasPayload,
	ib.WriteLastImm: hasPayload | hasImm, ib.WriteOnly: hasPayload | hasRETH,
	ib.WriteOnlyImm:       hasPayload | hasRETH | hasImm,
	ib.ReadRequest:        hasRETH,
	ib.ReadResponseFirst:  hasPayload | hasAETH,
	ib.ReadResponseMiddle: hasPayload,
	ib.ReadResponseLast:   hasPayload | hasAETH, ib.ReadResponseOnly: hasPayload | hasAETH,
	ib.Acknowledge: hasAETH, ib.AtomicAcknowledge: hasAETH | hasAtomicAck,
	ib.CompareSwap: hasAtomic, ib.FetchAdd: hasAtomic,
	ib.SendLastInv: hasPayload | hasImm, ib.SendOnlyInv: hasPayload | hasImm,
}

type form struct {
	layout layout
	bytes  uint8 // of BTH and extended headers; 0: no such opcode
}

var forms = makeForms()

func makeForms() (f [256]form) {
	set := func(op ib.Opcode, l layout) {
		n := BTHBytes
		for _, part := range []struct {
			has   layout
			bytes int
		}{
			{hasRETH, RETHBytes}, {hasAETH, AETHBytes}, {hasAtomic, AtomicETHBytes}, {hasAtomicAck, AtomicAckETHBytes},
			{hasImm, ImmDtBytes}, {hasDETH, DETHBytes}, {isCNP, cnpReserved},
		} {
			if l&part.has != 0 {
				n += part.bytes
			}
		}
		f[op] = form{l, uint8(n)}
	}
	for op, l := range rcLayouts {
		if l == 0 {
			continue
		}
		set(ib.ServiceRC|ib.Opcode(op), l)
		if ib.Opcode(op) <= ib.WriteOnlyImm {
			set(ib.ServiceUC|ib.Opcode(op), l)
		}
	}
	set(ib.ServiceUD|ib.SendOnly, hasPayload|hasDETH)
	set(ib.ServiceUD|ib.SendOnlyImm, hasPayload|hasDETH|hasImm)
	set(ib.CNP, isCNP)
	return f
}

// HeaderBytes returns the length of the BTH and the extended headers of op in bytes
// (of a CNP, its 16 reserved bytes too), or 0 if op is neither an opcode of RC, UC
// or UD nor CNP.
func HeaderBytes(op ib.Opcode) int { return int(forms[op].bytes) }

// HasPayload reports whether packets of opcode op carry payload.
func HasPayload(op ib.Opcode) bool { return forms[op].layout&hasPayload != 0 }
