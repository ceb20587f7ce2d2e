package mlx5

import "github.com/sluice-rdma/sluice/verbs"

// Piece is a part of a program's memory.
type Piece struct {
	Addr uint64
	Data []byte
}

// Vectors is a verbs.Memory that moves several pieces with one call.
type Vectors interface {
	// ReadVector fills the pieces in order, each with what lies at its address, or fails.
	ReadVector(pieces []Piece) error
	// WriteVector writes the pieces in order: who sees a piece sees those before it.
	WriteVector(pieces []Piece) error
}

// vectors is a program's memory with or without Vectors.
type vectors struct {
	verbs.Memory
	all Vectors // nil without
}

func (v *vectors) init(m verbs.Memory) {
	v.Memory = m
	v.all, _ = m.(Vectors)
}

// readAll fills the pieces.
func (v *vectors) readAll(pieces []Piece) error {
	if v.all != nil {
		return v.all.ReadVector(pieces)
	}
	for _, p := range pieces {
		if err := v.ReadMemory(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}

// writeAll writes the pieces in order.
func (v *vectors) writeAll(pieces []Piece) error {
	if v.all != nil {
		return v.all.WriteVector(pieces)
	}
	for _, p := range pieces {
		if err := v.WriteMemory(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}
