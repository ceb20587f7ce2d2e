package lint

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// egressDepth is the number of bytes Tofino 1's egress parser reads, the chip's own metadata
// in front of the packet counted. Ingress and Tofino 2 have no such bound.
const egressDepth = 160

// parser looks at the longest way through a parser and at its stacks.
func (l *linter) parser(p *ast.ParserDecl, egress bool) {
	g := graphOf(p)
	if l.target == Tofino1 && egress {
		if state, n := g.deepest(); n > egressDepth {
			l.warn(state.Pos(), "a way to the end of state %s of parser %s reads %d bytes: Tofino 1's egress parser reads at most %d, its metadata included; parse fewer headers in egress",
				state.Name, p.Name, n, egressDepth)
		}
	}
	for _, x := range g.ambiguous() {
		l.warn(x.at, "%s.next in state %s is element %d or %d of the stack, by the way into the state: the compiler wants to know which one; name it, as in %s[%d]",
			x.stack, x.state.Name, x.low, x.high, x.stack, x.low)
	}
}

// graph is a parser's states with the headers that each extracts.
type graph struct {
	p     *ast.ParserDecl
	bytes map[*ast.StateDecl]int
	turns map[*ast.StateDecl]int // of a loop, until a stack is full
	nexts map[*ast.StateDecl][]next
	after map[*ast.StateDecl][]*ast.StateDecl
	loops map[*ast.StateDecl]bool // the states that lead back to themselves
}

// next is an extraction into a stack: of its next element, or of the one named.
type next struct {
	stack string
	at    ast.Pos
	index int // -1: next
}

func graphOf(p *ast.ParserDecl) *graph {
	g := &graph{
		p: p, bytes: map[*ast.StateDecl]int{}, turns: map[*ast.StateDecl]int{}, nexts: map[*ast.StateDecl][]next{},
		after: map[*ast.StateDecl][]*ast.StateDecl{}, loops: map[*ast.StateDecl]bool{},
	}
	for _, s := range p.States {
		g.statements(s, s.Stmts)
		if t := s.Transition; t != nil {
			g.follow(s, t.Next)
			if t.Select != nil {
				for _, c := range t.Select.Cases {
					g.follow(s, c.Next)
				}
			}
		}
	}
	for _, s := range p.States {
		reached := map[*ast.StateDecl]bool{}
		g.reach(s, reached)
		g.loops[s] = reached[s]
		if g.loops[s] {
			g.bytes[s] *= max(1, g.turns[s])
		}
	}
	return g
}

func (g *graph) follow(s *ast.StateDecl, r *ast.StateRef) {
	if r != nil && r.State != nil {
		// The reference is to a state of this parser, whichever copy it is of.
		g.after[s] = append(g.after[s], g.p.States[r.State.Index])
	}
}

func (g *graph) reach(s *ast.StateDecl, reached map[*ast.StateDecl]bool) {
	for _, t := range g.after[s] {
		if !reached[t] {
			reached[t] = true
			g.reach(t, reached)
		}
	}
}

func (g *graph) statements(s *ast.StateDecl, stmts []ast.Stmt) {
	for _, st := range stmts {
		switch st := st.(type) {
		case *ast.Block:
			g.statements(s, st.Stmts)
		case *ast.CallStmt:
			g.call(s, st.Call)
		case *ast.Assign:
			if c, ok := st.Rhs.(*ast.Call); ok {
				g.call(s, c)
			}
		}
	}
}

// call counts what pkt.extract and pkt.advance take of the packet.
func (g *graph) call(s *ast.StateDecl, c *ast.Call) {
	if c.Kind != ast.CallMethod || c.Func == nil || len(c.Bound) == 0 {
		return
	}
	switch arg := c.Bound[0].Expr; c.Func.Name {
	case "extract":
		bits, _ := types.Width(arg.Type())
		g.bytes[s] += bits / 8
		g.extract(s, arg)
	case "advance":
		if v := arg.Const(); v != nil && v.Int.IsInt64() {
			g.bytes[s] += int(v.Int.Int64() / 8)
		}
	}
}

// extract notes the element of a stack that is read: the next one, or that of an index.
func (g *graph) extract(s *ast.StateDecl, arg ast.Expr) {
	switch x := arg.(type) {
	case *ast.Member:
		if x.Sel != ast.SelNext {
			return
		}
		if st, ok := x.X.Type().(*types.Stack); ok && (g.turns[s] == 0 || st.Size < g.turns[s]) {
			g.turns[s] = st.Size
		}
		g.nexts[s] = append(g.nexts[s], next{pathOf(x.X), x.Pos(), -1})
	case *ast.Index:
		if v := x.I.Const(); v != nil && v.Int.IsInt64() {
			g.nexts[s] = append(g.nexts[s], next{pathOf(x.X), x.Pos(), int(v.Int.Int64())})
		}
	}
}

// deepest is the state at the end of the way that takes most bytes, and how many these
// are. A loop counts until a stack of it is full, or once.
func (g *graph) deepest() (*ast.StateDecl, int) {
	type end struct {
		state *ast.StateDecl
		bytes int
	}
	known := map[*ast.StateDecl]end{}
	on := map[*ast.StateDecl]bool{}
	var from func(s *ast.StateDecl) end
	from = func(s *ast.StateDecl) end {
		if e, ok := known[s]; ok {
			return e
		}
		on[s] = true
		best := end{state: s}
		for _, t := range g.after[s] {
			if !on[t] {
				if e := from(t); e.bytes > best.bytes {
					best = e
				}
			}
		}
		on[s] = false
		best.bytes += g.bytes[s]
		known[s] = best
		return best
	}
	e := from(g.p.States[0])
	for _, s := range g.p.States {
		if s.Name == "start" {
			e = from(s)
		}
	}
	return e.state, e.bytes
}

// several is a next that stands for several elements.
type several struct {
	state     *ast.StateDecl
	stack     string
	at        ast.Pos
	low, high int
}

// ambiguous finds the extractions of next that stand for different elements by the way
// into their state. Loops are left out: the compiler unrolls them.
func (g *graph) ambiguous() []several {
	stacks := map[string]bool{}
	for _, ns := range g.nexts {
		for _, n := range ns {
			stacks[n.stack] = true
		}
	}
	var found []several
	for stack := range stacks {
		at := g.spans(stack)
		for _, s := range g.p.States {
			if a, ok := at[s]; ok && a.low != a.high {
				if n := g.firstNext(s, stack); n != nil {
					found = append(found, several{s, stack, n.at, a.low, a.high})
				}
			}
		}
	}
	return found
}

// span is the lowest and the highest next element of a stack.
type span struct{ low, high int }

// spans are the next elements of a stack with which states begin.
func (g *graph) spans(stack string) map[*ast.StateDecl]span {
	at := map[*ast.StateDecl]span{}
	var visit func(s *ast.StateDecl, low, high int)
	visit = func(s *ast.StateDecl, low, high int) {
		if g.loops[s] {
			return
		}
		if have, ok := at[s]; ok {
			if have.low <= low && have.high >= high {
				return
			}
			low, high = min(low, have.low), max(high, have.high)
		}
		at[s] = span{low, high}
		for _, n := range g.nexts[s] {
			switch {
			case n.stack != stack:
			case n.index >= 0:
				low, high = n.index+1, n.index+1
			default:
				low, high = low+1, high+1
			}
		}
		for _, t := range g.after[s] {
			visit(t, low, high)
		}
	}
	for _, s := range g.p.States {
		if s.Name == "start" {
			visit(s, 0, 0)
		}
	}
	return at
}

// firstNext is the first extraction of a state to next of a stack; nil if one to an index comes before: what follows is known.
func (g *graph) firstNext(s *ast.StateDecl, stack string) *next {
	for i := range g.nexts[s] {
		n := &g.nexts[s][i]
		switch {
		case n.stack != stack:
		case n.index >= 0:
			return nil
		default:
			return n
		}
	}
	return nil
}
