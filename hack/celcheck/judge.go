package main

import (
	"fmt"
	"net/http"
)

// A judge knows the definitions and policies.
type judge struct {
	kinds    map[string]*kind
	policies []*policy
}

func newJudge(given setting) (*judge, error) {
	made := &judge{kinds: map[string]*kind{}}
	for _, definition := range given.Definitions {
		of, err := newKind(definition)
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", definition.Name, err)
		}
		made.kinds[of.kind.Kind] = of
	}
	for _, one := range given.Policies {
		compiled, err := newPolicy(one)
		if err != nil {
			return nil, err
		}
		made.policies = append(made.policies, compiled)
	}
	return made, nil
}

// of judges a write: first the definition, then the policies, as the API server does.
func (j *judge) of(one write) verdict {
	named := one.New
	if named == nil {
		named = one.Old
	}
	name, _ := named["kind"].(string)
	of := j.kinds[name]
	if of == nil {
		return verdict{Status: http.StatusNotFound, Message: fmt.Sprintf("there is no definition of kind %q", name)}
	}
	object, old := of.coerce(one.New), of.coerce(one.Old)
	if object != nil {
		if refusal := of.validate(one.Subresource, object, old); refusal != nil {
			return *refusal
		}
	}
	attributes := attributesOf(of, one, object, old)
	for _, policy := range j.policies {
		if refusal := policy.refuses(attributes, of, one.Speaker); refusal != nil {
			return *refusal
		}
	}
	if object == nil {
		return verdict{}
	}
	return verdict{Object: of.coerce(object.Object).Object}
}
