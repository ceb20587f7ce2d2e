package sweep

import (
	"io"

	"github.com/parquet-go/parquet-go"
)

// parquetRows is the number of rows of a row group: as many as the table holds in memory.
const parquetRows = 1 << 15

// newParquet returns a Table that writes Parquet, of a plan's sweep.
func newParquet(w io.Writer, p *Plan) Table {
	text := func() parquet.Node { return parquet.Encoded(parquet.String(), &parquet.RLEDictionary) }
	group := parquet.Group{
		"cell": parquet.Int(64), "scenario": text(), "system": text(), "seed": parquet.Uint(64),
		"scope": text(), "name": text(), "figure": text(), "unit": text(), "value": parquet.Leaf(parquet.DoubleType),
	}
	for _, name := range p.Parameters {
		group[name] = text()
	}
	schema := parquet.NewSchema("sweep", group) // which orders columns by their names
	t := &parquetTable{plan: p, at: map[string]int{}}
	for i, path := range schema.Columns() {
		t.at[path[0]] = i
	}
	t.row = make(parquet.Row, len(t.at))
	t.w = parquet.NewGenericWriter[any](w, schema, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(parquetRows), parquet.CreatedBy("sluice", "", ""))
	return t
}

type parquetTable struct {
	plan *Plan
	at   map[string]int // columns by name
	row  parquet.Row
	w    *parquet.GenericWriter[any]
}

func (t *parquetTable) set(column string, v parquet.Value) {
	i := t.at[column]
	t.row[i] = v.Level(0, 0, i)
}

func (t *parquetTable) Write(r *Row) error {
	t.set("cell", parquet.Int64Value(int64(r.cell.Index)))
	t.set("scenario", parquet.ByteArrayValue([]byte(r.cell.Scenario)))
	t.set("system", parquet.ByteArrayValue([]byte(r.cell.System)))
	t.set("seed", parquet.Int64Value(int64(r.cell.Seed))) //nolint:gosec // the bits of an unsigned column
	for _, name := range t.plan.Parameters {
		t.set(name, parquet.ByteArrayValue([]byte(r.cell.Parameters[name])))
	}
	t.set("scope", parquet.ByteArrayValue([]byte(r.scope)))
	t.set("name", parquet.ByteArrayValue([]byte(r.name)))
	t.set("figure", parquet.ByteArrayValue([]byte(r.figure)))
	t.set("unit", parquet.ByteArrayValue([]byte(r.unit)))
	t.set("value", parquet.DoubleValue(r.value))
	_, err := t.w.WriteRows([]parquet.Row{t.row})
	return err
}

func (t *parquetTable) Close() error { return t.w.Close() }
