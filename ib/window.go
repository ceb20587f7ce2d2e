package ib

// MWType is the type of a memory window (ibv_mw_type; IBA 10.6.7).
type MWType uint8

// Types of memory window. The values are libibverbs'.
const (
	MWType1 MWType = 1 // its key serves all queue pairs of its protection domain
	MWType2 MWType = 2 // its key serves the queue pair that bound it, until it is invalidated
)

func (t MWType) String() string {
	return name(map[MWType]string{MWType1: "type 1", MWType2: "type 2"}, t, "MWType")
}

// IncRKey returns the key after rkey of the same memory window: the consumer's part, its
// lowest eight bits, goes on by one, and wraps (ibv_inc_rkey).
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }
