package mlx5

import "github.com/sluice-rdma/sluice/verbs"

// vectors is a program's memory that is a verbs.VectorMemory or not.
type vectors struct {
	verbs.Memory
	all verbs.VectorMemory // nil if it is not
}

func (v *vectors) init(m verbs.Memory) {
	v.Memory = m
	v.all, _ = m.(verbs.VectorMemory)
}

// readAll fills the pieces in order.
func (v *vectors) readAll(pieces []verbs.MemoryPiece) error {
	if v.all != nil {
		return v.all.ReadPieces(pieces)
	}
	for _, p := range pieces {
		if err := v.ReadMemory(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}

// writeAll writes the pieces in order.
func (v *vectors) writeAll(pieces []verbs.MemoryPiece) error {
	if v.all != nil {
		return v.all.WritePieces(pieces)
	}
	for _, p := range pieces {
		if err := v.WriteMemory(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}
