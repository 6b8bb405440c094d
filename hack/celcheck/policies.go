package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	v1 "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// A speaker is a user, perhaps with a pod's token, who has these verbs on every object of ours.
type speaker struct {
	Name   string   `json:"name"`
	Pod    string   `json:"pod"`
	PodUID string   `json:"podUID"`
	Verbs  []string `json:"verbs"`
}

func (s speaker) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.Contains(s.Verbs, asked.GetVerb()) || slices.Contains(s.Verbs, "*") {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func (s speaker) info() user.Info {
	info := &user.DefaultInfo{Name: s.Name}
	if s.Pod != "" {
		info.Extra = map[string][]string{
			"authentication.kubernetes.io/pod-name": {s.Pod},
			"authentication.kubernetes.io/pod-uid":  {s.PodUID},
		}
	}
	return info
}

type policy struct {
	resources  []string
	operations []v1.OperationType
	validator  validating.Validator
}

// newPolicy compiles a policy as the plugin of the API server does. Match conditions are not among what we use.
func newPolicy(given v1.ValidatingAdmissionPolicy) (*policy, error) {
	spec := given.Spec
	if len(spec.MatchConditions) > 0 || spec.ParamKind != nil || spec.MatchConstraints == nil {
		return nil, fmt.Errorf("policy %s uses what is not evaluated here", given.Name)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	asking := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	variables := make([]cel.NamedExpressionAccessor, len(spec.Variables))
	for i, one := range spec.Variables {
		variables[i] = &validating.Variable{Name: one.Name, Expression: one.Expression}
	}
	compiler.CompileAndStoreVariables(variables, asking, environment.StoredExpressions)
	checks, messages := make([]cel.ExpressionAccessor, len(spec.Validations)), make([]cel.ExpressionAccessor, len(spec.Validations))
	for i, one := range spec.Validations {
		checks[i] = &validating.ValidationCondition{Expression: one.Expression, Message: one.Message, Reason: one.Reason}
		if one.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: one.MessageExpression}
		}
	}
	made := &policy{}
	for _, rule := range spec.MatchConstraints.ResourceRules {
		made.resources = append(made.resources, rule.Resources...)
		made.operations = append(made.operations, rule.Operations...)
	}
	made.validator = validating.NewValidator(
		compiler.CompileCondition(checks, asking, environment.StoredExpressions),
		nil,
		compiler.CompileCondition(nil, asking, environment.StoredExpressions),
		compiler.CompileCondition(messages, cel.OptionalVariableDeclarations{}, environment.StoredExpressions),
		spec.FailurePolicy,
		nil,
	)
	return made, nil
}

func (p *policy) refuses(attributes admission.Attributes, of *kind, who speaker) *verdict {
	resource := attributes.GetResource().Resource
	if attributes.GetSubresource() != "" || !slices.Contains(p.resources, resource) {
		return nil
	}
	if !slices.Contains(p.operations, v1.OperationType(attributes.GetOperation())) {
		return nil
	}
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: of.kind}
	if object := attributes.GetObject(); object != nil {
		versioned.VersionedObject = admission.NewLazyObject(object)
	}
	if old := attributes.GetOldObject(); old != nil {
		versioned.VersionedOldObject = admission.NewLazyObject(old)
	}
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: attributes.GetNamespace()}}
	result := p.validator.Validate(
		context.Background(), of.resource, versioned, nil, namespace, celconfig.RuntimeCELCostBudget, who,
	)
	for _, decision := range result.Decisions {
		if decision.Action == validating.ActionDeny {
			return &verdict{Status: http.StatusForbidden, Message: decision.Message}
		}
	}
	return nil
}

// attributesOf is the admission's view of a write.
func attributesOf(of *kind, one write, object, old *unstructured.Unstructured) admission.Attributes {
	operation, options := admission.Update, runtime.Object(&meta.UpdateOptions{})
	named := object
	var current, previous runtime.Object
	switch {
	case object == nil:
		operation, options, named = admission.Delete, &meta.DeleteOptions{}, old
	case old == nil:
		operation, options = admission.Create, &meta.CreateOptions{}
	}
	if object != nil {
		current = object
	}
	if old != nil {
		previous = old
	}
	return admission.NewAttributesRecord(
		current, previous, of.kind, named.GetNamespace(), named.GetName(), of.resource, one.Subresource, operation,
		options, false, one.Speaker.info(),
	)
}
