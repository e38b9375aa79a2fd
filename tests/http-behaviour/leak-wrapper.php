<?php
// A stream wrapper, and a stream context.
echo in_array('planted', stream_get_wrappers(), true) || (stream_context_get_options(stream_context_get_default())['http'] ?? []) !== [] ? 'leaked' : 'clean';
class PlantedWrapper
{
}
stream_wrapper_register('planted', 'PlantedWrapper');
stream_context_set_default(['http' => ['user_agent' => 'planted']]);
