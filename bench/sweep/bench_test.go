package sweep

import "testing"

// BenchmarkCell is one cell, its result in memory; the simulation alone is the rest.
func BenchmarkCell(b *testing.B) {
	s, err := parseSpec("small.yaml", []byte("scenarios: [quickstart]\nseeds: 2\n"))
	if err != nil {
		b.Fatal(err)
	}
	f := Dir(b.TempDir())
	p, err := Make(f, s, nil)
	if err != nil {
		b.Fatal(err)
	}
	var cells []*Cell
	for c, err := range f.cells(&p.Plan, 0, p.Cells) {
		if err != nil {
			b.Fatal(err)
		}
		cells = append(cells, c)
	}
	l := loader{folder: f, plan: &p.Plan}
	for i := range b.N {
		if _, err := l.run(b.Context(), cells[i%2], nil); err != nil {
			b.Fatal(err)
		}
	}
}
